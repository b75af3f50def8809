"""Makes sure that all hosts of a program run the same programs in the same order, and end together.

``coordination_store``: the key-value store and barriers of JAX's coordination service
``host_presence``: reports of each host, and the watch over late and missing hosts
``host_interrupts``: interrupts that are deferred until they harm no other host
``host_proposal``: what a host is about to run, differences, agreed constants
``host_agreement``: the agreement of a group of hosts on the next program
``host_exit``: the end of a program on several hosts
``launch_agreement``: agreement at the launch of a trace or an eager operation
"""
