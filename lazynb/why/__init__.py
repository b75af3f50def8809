"""Why a program was compiled: its difference to the nearest that was, in the user's terms."""
