"""Sub-agents at work: started within their parents' bounds, told of exactly once, taken up after a crash."""
