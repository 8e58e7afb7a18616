"""What runs inside a step's own processes, next to torch and RLinf. Nothing here is imported by the `recap` command."""
