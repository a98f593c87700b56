"""The folders of skills that commands see: looked at anew when one of them came, went or became another."""

from __future__ import annotations

import json
from pathlib import Path

from homarus.agent.sandbox_for import SkillMounts
from homarus.config.load import load_config
from homarus.config.paths import resolve_paths


def test_a_folder_that_comes_goes_or_turns_is_seen(tmp_path: Path) -> None:
    state = tmp_path / ".openclaw"
    state.mkdir()
    extra = tmp_path / "extra"
    (state / "openclaw.json").write_text(json.dumps({"skills": {"load": {"extraDirs": [str(extra)]}}}))
    env = {"HOME": str(tmp_path)}
    mounts = SkillMounts(load_config(resolve_paths(env), env))

    def paths() -> set[str]:
        return {mount.path for mount in mounts.now()}

    assert paths() == set()
    (state / "skills").mkdir()
    assert paths() == {str(state / "skills")}
    assert mounts.now() is mounts.now()
    real = tmp_path / "real"
    real.mkdir()
    extra.symlink_to(real)
    assert paths() == {str(state / "skills"), str(real)}
    extra.unlink()
    extra.symlink_to(tmp_path)
    assert paths() == {str(state / "skills")}, "a whole home is no folder of skills"
