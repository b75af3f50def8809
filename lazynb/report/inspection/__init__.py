"""The compilation inspector: data in the shapes of :mod:`lazynb.xla.inspection_schema`, and static forms.

``inspection_data``: assembles an inspection from its sections
``inspection_index``: ids and colours of clusters, and notes on missing sections
``source_data``: source lines
``operation_data``: operations, their fates, and earlier cells
``program_data``: programs: HLO, passes, memory, cost
``hlo_data``: HLO text, changes of passes, compile times
``formation_data``: formation of kernels, pass by pass
``kernel_data``: clusters: costs, times, code
``boundary_data``: boundaries between clusters
``finding_data``: findings
``sharding_data``: shardings, their drawings, and reshardings
``session_tables``: executables, trace breaks and timelines
``inspection_size``: size limit of the JSON
``inspection_phrases``: headline and other phrases
``inspection_text``: the inspection as plain text
``inspection_figures``: SVG figures: kernels, memory, and highlights of the graph
``inspection_markup``: HTML fragments
``kernel_tables``: HTML tables of kernels, boundaries and fates
``program_tables``: HTML tables of memory, passes and compile times
``inspection_html``: the inspection as HTML without scripts
``inspection_page``: the inspection as an offline page and as a MIME bundle
``inspection_file``: saved inspections: writing, reading, checking
``program_reading``: reads program files in the worker process, with limits
``program_worker``: the worker process
"""
