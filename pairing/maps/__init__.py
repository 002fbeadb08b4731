"""The user's word on pairs: map files, read, applied and written."""
