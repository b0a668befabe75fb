"""What runs beside the server: the keeper of interpreters, and the interpreters themselves.

Standard library only, and nothing of this library but this package: an interpreter is a fork of its
keeper, so that whatever the keeper has loaded the agent's code would find loaded.
"""
