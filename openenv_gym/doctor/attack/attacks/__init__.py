"""Attacks: functions whose source is sent to an environment that runs it.

Each imports what it needs itself, and returns whether it got what it was after, with a few words.
An ``OSError`` means that it was refused. Each leaves the machine as it was.
"""
