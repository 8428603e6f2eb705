"""The training loop, checkpoints and telemetry."""
