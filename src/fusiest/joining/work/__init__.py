"""Several processes that join together.

`processes` forks them and hands out work; `shares` cuts a level into parts and puts the joined parts together.
"""
