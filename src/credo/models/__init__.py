"""What users build; each model has `to_factor_graph()`, and none knows an algorithm."""
