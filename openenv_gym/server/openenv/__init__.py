"""OpenEnv's side of a server: its JSON on WebSockets, and its HTTP routes."""
