"""Why a run converged, oscillated or diverged: measurements, rules and advice."""
