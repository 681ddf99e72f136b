"""What everything that takes steps stands on: runs with a clock and signals, the one driver, the optimisers.

Nothing here knows a model or an algorithm.

    run, driver    clocks, signals, budgets; the loop of everything that takes steps
    budgets, pace  budgets counted in other ways; how many steps come in one call
    line_search    halving, Wolfe conditions, golden section
    curvature      the two loops of L-BFGS
    lbfgs          L-BFGS, orthant-wise with absolute values; its memory is a state
    optimisers     L-BFGS, SGD and Adam on a loss with batches, by name
    frank_wolfe    steps to the vertices of a set and away from them, in blocks too
    cccp           convex and concave parts, by one convex problem after another
"""
