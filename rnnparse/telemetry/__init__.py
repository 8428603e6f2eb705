"""Telemetry of training: norms, zeros and saturation by group of variables."""
