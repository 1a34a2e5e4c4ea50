"""Charts: one function a chart, data -> Figure. The same data gives the same bytes (see `style.save`)."""
