"""The branch's whole history → the pages of a static site: an overview, and a page for each case.

Every link within the site is relative and leads to a file of it. Links that leave it lead to the
repository that the record names, and nowhere else. The pages have the style, the script and the
rules of the report's: no request, everything escaped, legible without a script.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ci_score import lazy_door

if TYPE_CHECKING:
    from ci_score.report.site.names import page_names as page_names
    from ci_score.report.site.names import report_name as report_name
    from ci_score.report.site.pages import site_pages as site_pages
else:
    __getattr__ = lazy_door(__name__, names=("page_names", "report_name"), pages=("site_pages",))
