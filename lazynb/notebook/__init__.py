"""The IPython extension: magics, the inspector, JupyterLab, and cells that run on a cluster.

Modules, in reading order:

- ``extension``: loads lazynb into an IPython shell; hooks on cell start and end
- ``shell_changes``: changes of a shell that unloading undoes: hooks, magics, methods
- ``cell_execution``: the stack of running cells; traces that earlier cells left pending
- ``state_magics``: ``%lazy``, ``%graph``, ``%breaks``, ``%cache``
- ``run_magics``: ``%%explain``, ``%%numerics``, ``%%eager``
- ``compile_magics``: ``%%compile``, ``%%predict``, ``%inspect``, ``%diff``
- ``compile_request``: parses and checks the options of ``%%compile``
- ``cell_compilation``: records and compiles a cell for ``%%compile``
- ``cell_programs``: the programs that a cell ran or left pending; the cell as a jitted function
- ``prediction_magic``: parses ``%%predict`` and chooses how to ask
- ``prediction_form``: ipywidgets forms of ``%%predict``
- ``inspection_display``: chooses the inspector widget or its static form
- ``inspector_widget``: the inspector as an anywidget widget
- ``frontend_requests``: answers the requests of the inspector's front end
- ``traceback_display``: tracebacks without lazynb's frames
- ``lab_messages``: message types of the JupyterLab extension
- ``line_marks``: kernels and trace breaks by line, for the editor
- ``lab_session``: the comm between the kernel and the JupyterLab extension
- ``cluster``: cells that run in several processes
"""
