"""The endpoints by what they are about; `routes.py` has the table of them all."""
