"""What a study shows: results, their significance, the narrative and the page."""
