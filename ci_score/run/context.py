"""One run in a job: its settings, its event, and its access to the outside."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ci_score.errors import GitHubError, WrongUseError
from ci_score.files.disk import read_bytes
from ci_score.files.strict_json import parse
from ci_score.github import (
    Api,
    Event,
    Kind,
    ProducerRun,
    PullConversation,
    artifacts,
    commits,
    read_event,
)
from ci_score.model.code_diff import Diffs
from ci_score.model.conversation import Conversation, Nobody
from ci_score.model.gate import Gate
from ci_score.model.reasons import Reason, Why
from ci_score.model.record import Record
from ci_score.run.settings import Settings, file_name
from ci_score.run.story import Place

LARGEST_EVENT = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class World:
    """What a run needs from its surroundings; `reading` shows progress while files are read."""

    environment: Mapping[str, str]
    sleep: Callable[[float], None]
    clock: Callable[[], float]
    now: Callable[[], str]
    say: Callable[[str], None]
    command: Callable[[str], None]
    show: Callable[[Record], None]
    reading: AbstractContextManager[object]
    # Of the repository in the workspace, as git knows it: diffs, and the files of a commit.
    diffs: Diffs
    tracked: Callable[[str], frozenset[str]]

    @property
    def is_job(self) -> bool:
        """Whether this is a GitHub Actions job."""
        return self.environment.get("GITHUB_ACTIONS") == "true"

    def path(self, name: str) -> Path | None:
        """A file that the runner names in a variable."""
        return Path(self.environment[name]) if self.environment.get(name) else None


@dataclass(frozen=True, slots=True)
class Run:
    """Everything that a run in a job needs, built once."""

    settings: Settings
    world: World
    event: Event
    api: Api
    conversation: PullConversation | None
    notices: tuple[Reason, ...] = ()

    @classmethod
    def of(cls, settings: Settings, world: World) -> Run:
        """The run that the job's environment describes."""
        environment = world.environment
        event = read_event(environment, _payload(environment), settings.baseline_branch)
        url = environment.get("GITHUB_API_URL") or "https://api.github.com"
        api = Api(url, settings.token, sleep=world.sleep)
        event = artifacts.with_workflow(api, event)
        pull = event.pull
        # A run in the merge queue has a pull request too; its comments may accept a regression.
        talk = PullConversation(api, event.repository, pull.number, pull.head) if pull else None
        return cls(settings, world, event, api, talk)

    def with_its_pull(self) -> Run:
        """The run, which can talk in the pull request of its commit where the event names none."""
        event, number = self.event, self.settings.pr_number
        if self.conversation is not None or event.kind not in (
            Kind.OTHER_BRANCH,
            Kind.TRACKED_BRANCH,
        ):
            return self
        try:
            pull = (
                commits.pull_of_number(self.api, event, number)
                if number
                else commits.pull_of_branch(self.api, event)
            )
        except (GitHubError, WrongUseError) as error:
            pull = Why.PULL_NOT_READ(words=str(error))
        if pull is None:
            return self
        if isinstance(pull, Reason):
            return replace(self, notices=(*self.notices, pull))
        talk = PullConversation(
            self.api, event.repository, pull.number, pull.head, runs_of=event.name
        )
        return replace(self, conversation=talk)

    def about(self, producer: ProducerRun) -> Iterator[Run]:
        """Itself for each pull request of another run's commit; nearly always that is one.

        The first is to the tracked branch, if one is. Each further one has a folder of its own.
        """
        api, name = self.api, self.event.repository
        event = replace(
            self.event,
            run=producer.run,
            run_id=producer.id,
            workflow=producer.workflow,
            sha=producer.head_sha,
        )
        first = self.settings.output_dir
        for place, pull in enumerate(commits.pulls_of_producer(api, event, producer)):
            folder = first / f"pull-{pull.number}" if place else first
            yield replace(
                self,
                event=replace(event, pull=pull),
                settings=replace(self.settings, output_dir=folder),
                conversation=PullConversation(api, name, pull.number, pull.head),
            )

    @property
    def accepting(self) -> Conversation:
        """Where a regression may be accepted."""
        return self.conversation.accepting if self.conversation else Nobody()

    @property
    def place(self) -> Place:
        """Where the report belongs to, by this run's own event alone."""
        event, talk = self.event, self.conversation
        return Place(
            repository=event.address,
            server=event.server,
            pull=talk.number if talk else None,
            pull_head=event.pull.head_sha if event.pull else None,
        )

    @property
    def record_artifact(self) -> str:
        """What the artifact with this run's record is called: the branch's have a name alone."""
        is_tracked = self.event.kind is Kind.TRACKED_BRANCH
        return self.settings.baseline_artifact if is_tracked else self.pull_artifact

    @property
    def pull_artifact(self) -> str:
        """The artifact's name for a record that later runs must not take as a baseline."""
        return f"{self.settings.baseline_artifact}-pr"

    @property
    def page_file(self) -> str:
        """The page's name, which is its artifact's where one file is uploaded as it is."""
        title = self.settings.title
        return f"ci-score-{file_name(title) if title else 'report'}-{self.event.run.attempt}.html"

    @property
    def gate(self) -> Gate:
        """The gate; on a branch, whose changes are merged already, it only reports."""
        reports_only = not self.event.gates and not self.settings.fail_on_branch
        return Gate(self.settings.fail_on, self.settings.on_inconclusive, reports_only)


def _payload(environment: Mapping[str, str]) -> Any:
    path = environment.get("GITHUB_EVENT_PATH", "")
    if not path:
        raise WrongUseError("GITHUB_EVENT_PATH is not set: is this a GitHub Actions job?")
    payload = parse(read_bytes(path, LARGEST_EVENT), "the event")
    if not isinstance(payload, dict):
        raise WrongUseError("the event is not a JSON object")
    return payload
