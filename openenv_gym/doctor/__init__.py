"""What works on this machine, and what a container of an image withstands."""
