"""`make worst`: the load in which the candidate loses most: searched by probes, then measured anew."""
