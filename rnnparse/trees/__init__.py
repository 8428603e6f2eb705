"""Reading, cleaning, binarizing and drawing of trees."""
