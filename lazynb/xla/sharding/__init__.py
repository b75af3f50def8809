"""Explains SPMD programs: the sharding of each value on a mesh, and the cause of each collective.

Its modules, in reading order:

``tile_assignment``: how an array is cut into tiles on the devices
``value_shardings``: the sharding of each value of a compilation
``replica_groups``: the device groups of a collective, and their mesh axes
``collectives``: the collectives of a program, with their devices and traffic
``collective_causes``: why a collective is there
"""
