"""The commands, one file each: to add one, write its file and enter it in `cli/app.py`."""
