"""The kernel's side of the JupyterLab extension."""
