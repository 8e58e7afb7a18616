"""`recap check`."""
