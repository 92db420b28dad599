"""Values → texts for people. Pure: `-> str`; a stranger's text is escaped on its way out."""
