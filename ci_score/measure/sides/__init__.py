"""What a side is: a checkout and an environment, and how a launch of it starts.

A base that is a commit gets a work tree; links and a setup make each side whole before anything is
timed. Here also stands what differs between the sides beside the code.
"""
