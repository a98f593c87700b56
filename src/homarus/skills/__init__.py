"""Skills: folders with a SKILL.md that an agent reads when a task calls for it. A skill is text; it grants nothing."""
