.venv/bin/python:
	python3 -m venv .venv

compile: .venv/bin/python
	.venv/bin/python setup.py -q build_ext --inplace
