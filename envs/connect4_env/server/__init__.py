"""Server side of Connect Four."""
