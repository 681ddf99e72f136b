"""The words everyone speaks: variables, factors, graphs, evidence, results, errors, names."""
