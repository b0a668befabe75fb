"""Server side of the market."""
