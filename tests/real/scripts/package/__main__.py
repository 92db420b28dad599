import runpy

runpy.run_module("plain", run_name="__main__")
