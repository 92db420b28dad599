# One verb a chore. Everything lives in this folder's .venv; nothing outside the clone is changed.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# A fresh virtual environment knows no package of the machine's, and reads hashes only from our locks.
PIP_INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-cache-dir

# A worker a core; who is done takes over what the others have not begun.
PYTEST = $(BIN)/python -m pytest --numprocesses logical --dist worksteal
# The rooms that know no network, no job and no accelerator.
PURE := model reference files compare judge report launches baselines

# What a user has set for pip elsewhere must not steer it here, and a thousand processes import what one of them can compile.
unexport PYTHONDONTWRITEBYTECODE PIP_USER PIP_TARGET PIP_PREFIX PIP_REQUIRE_HASHES PIP_CONSTRAINT PIP_NO_DEPS PIP_REQUIREMENT

.PHONY: help demo test quick lint bench bench-causes bench-names bench-readers bench-report bench-page screenshots bench-gate bench-ab bench-bisect bench-hook bench-marks real lock golden schemas picture table house clean

help:
	@echo "make demo    set up and run the main job on sample data"
	@echo "make test    set up and run the tests, on all cores"
	@echo "make quick   the tests of the pure rooms alone: after every save"
	@echo "make lint    ruff, strict types"
	@echo "make bench   print the speed ratios that docs/comparison.md quotes"
	@echo "make bench-readers  the same for traces of 400 MB and databases of 200 MB; takes minutes"
	@echo "make bench-causes  which planted causes of a slowdown are named, and what is said falsely"
	@echo "make bench-names  how well short names tell kernels apart, on real traces in ../shared"
	@echo "make bench-gate  how often the gate is wrong and what it finds, simulated; takes a quarter of an hour"
	@echo "make bench-ab  what interleaved pairs are worth, with real processes; takes half an hour"
	@echo "make bench-bisect  how often the search for a commit finds it, and with how many launches, simulated"
	@echo "make bench-hook  the start-up hook's own time a step"
	@echo "make bench-marks  what the marks of lines change, and how exact they are, with the real torch; takes minutes"
	@echo "make real    every script that the start-up hook was tried on, with the real torch; takes half an hour"
	@echo "make bench-report  how long a large report takes beside jinja2 alone"
	@echo "make bench-page  how fast the page of a large model is in a browser; installs one"
	@echo "make screenshots  take the README's pictures anew; installs a browser"
	@echo "make golden  rewrite the expected texts in tests/golden; read the diff"
	@echo "make schemas  write the JSON schemas that are shipped anew"
	@echo "make picture  draw the house in CONTRIBUTING anew, from its plan"
	@echo "make table   write the table of docs/judging.md anew: every rule, evidence and exit code"
	@echo "make house   print how big the house is, and how far it is to the decision"
	@echo "make lock    resolve the dependencies anew"
	@echo "make clean   remove what the other verbs made"

demo: $(VENV)/.runtime
	$(BIN)/ci-score demo

test: $(VENV)/.tests
	$(PYTEST)

quick: $(VENV)/.tests
	$(PYTEST) -q $(PURE:%=tests/%)

lint: $(VENV)/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.tests
	$(BIN)/python -m benchmarks.scoring

bench-readers: $(VENV)/.tests
	$(BIN)/python -m benchmarks.readers
	$(BIN)/python -m benchmarks.nsight

bench-causes: $(VENV)/.tests
	$(BIN)/python -m benchmarks.causes --verbose

bench-names: $(VENV)/.tests
	$(BIN)/python -m benchmarks.names

bench-gate: $(VENV)/.tests
	$(BIN)/python -m benchmarks.gate
	$(BIN)/python -m benchmarks.trend

bench-ab: $(VENV)/.tests
	$(BIN)/python -m benchmarks.ab

bench-bisect: $(VENV)/.tests
	$(BIN)/python -m benchmarks.bisect

bench-hook: $(VENV)/.tests
	CI_SCORE_FRAMEWORKS=$$(.ci/frameworks) $(BIN)/python -m benchmarks.hook

bench-marks: $(VENV)/.tests
	CI_SCORE_FRAMEWORKS=$$(.ci/frameworks) $(BIN)/python -m benchmarks.marks

real:
	CI_SCORE_REAL=all .ci/run real

bench-report: $(VENV)/.tests
	$(BIN)/python -m benchmarks.report

bench-page:
	PYTHONPATH=. $$(.ci/browser) -m benchmarks.page

screenshots:
	PYTHONPATH=. $$(.ci/browser) -m tests.browser.screenshots

golden: $(VENV)/.tests
	CI_SCORE_WRITE_GOLDEN=1 $(BIN)/python -m pytest -q tests/report/test_report.py
	git diff --stat tests/golden

schemas: $(VENV)/.tests
	CI_SCORE_WRITE_SCHEMAS=1 $(BIN)/python -m pytest -q tests/baselines/test_schemas.py
	git diff --stat ci_score/model/schemas

picture: $(VENV)/.tests
	CI_SCORE_WRITE_PICTURE=1 $(BIN)/python -m pytest -q tests/house/test_architecture.py
	git diff --stat CONTRIBUTING.md

table: $(VENV)/.tests
	CI_SCORE_WRITE_TABLE=1 $(BIN)/python -m pytest -q tests/house/test_judging_docs.py
	git diff --stat docs/judging.md

house: $(VENV)/.tests
	$(BIN)/python -m benchmarks.house

lock: $(VENV)/.lint
	PATH="$(CURDIR)/$(BIN):$$PATH" sh .ci/lock

clean:
	rm -rf $(VENV) ci-score-demo .pytest_cache .pytest_tmp .mypy_cache .ruff_cache .hypothesis dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.created: Makefile
	@command -v $(PYTHON) >/dev/null || { echo "There is no $(PYTHON) here. Name one: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "ci-score needs Python 3.11 or newer, and $(PYTHON) is older. Name another one: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "This Python has no venv module. On Debian or Ubuntu: apt install python3-venv" >&2; exit 1; }
	@# Clearing a link would empty what another clone works with.
	@test ! -L $(VENV) || rm $(VENV)
	$(PYTHON) -m venv --clear $(VENV)
	@touch $@

$(VENV)/.runtime: $(VENV)/.created requirements.lock pyproject.toml
	$(PIP_INSTALL) --require-hashes -r requirements.lock
	$(PIP_INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.tests: $(VENV)/.runtime requirements-test.lock
	$(PIP_INSTALL) --require-hashes -r requirements-test.lock
	@touch $@

$(VENV)/.lint: $(VENV)/.tests requirements-lint.lock
	$(PIP_INSTALL) --require-hashes -r requirements-lint.lock
	@touch $@
