"""The search for the commit of a range that made a step slower."""
