"""From the rows of many nights to what became of each site, and where to dig first."""
