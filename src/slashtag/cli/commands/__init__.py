"""The commands: to add one, write it in a file, beside those like it, and enter it in `cli/app.py`."""
