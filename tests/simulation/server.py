"""The server of the store in the simulation: it runs scripts, keeps its file of effects, loses the end of it, fills up, and its
stored bits are damaged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal

from tests.simulation.lua_host import Scripts
from tests.simulation.mini_redis import Effect, MiniRedis, RedisError
from tests.simulation.world import EPOCH_MS, World

Mode = Literal["always", "everysec", "failover"]
MODES: Final[tuple[Mode, ...]] = ("always", "everysec", "failover")
OOM: Final = "OOM command not allowed when used memory > 'maxmemory'."


class Server:
    """One server. `received` is called after every script that wrote data, with its position in the file, its name, its keys, and
    its writes; `fell_back` with the number of scripts whose effects are left.
    """

    def __init__(self, world: World, scripts: Scripts, mode: Mode) -> None:
        self.world = world
        self.mode = mode
        self.received: Callable[[int, str, list[bytes], list[Effect]], None] = lambda *_: None
        self.fell_back: Callable[[int], None] = lambda _effects: None
        self.upgrading: Callable[[], None] = lambda: None  # called before an upgrade event is appended
        self.scripts = scripts
        self.watchers: list[Callable[[], None]] = []  # wait for something new in a stream
        self.up = True
        self.full = False
        self.life = 0  # counts restarts and failovers: what was under way in an earlier life gets no answer
        self.clock_offset_ms = 0
        self.file: list[list[Effect]] = []
        self.durable = 0
        self.floor = 0  # scripts that no failure takes back
        self.redis = MiniRedis(self.now_ms)
        if mode == "everysec":
            self._flush()

    def now_ms(self) -> int:
        """The server's own clock."""
        return EPOCH_MS + int(self.world.now) + self.clock_offset_ms

    def execute(self, name: str, keys: list[bytes], arguments: list[bytes]) -> Any:
        """Run one script. Raises `RedisError`."""
        script = self.scripts.of(name)
        if self.full and script.needs_room:
            raise RedisError(OOM)
        if name == "append" and b"upgrade" in arguments:
            self.upgrading()
        self.scripts.host.redis = self.redis
        try:
            return script.run(keys, arguments)
        finally:
            self._keep(name, keys)

    def rewrite(self, *effect: Any) -> None:
        """Change stored data permanently without the knowledge of any process: bit rot, or another client."""
        self.redis.call(*effect)
        self._keep("", [])
        self.durable = len(self.file)

    def synced(self, effects: int, life: int) -> None:
        """The first `effects` scripts are on disk now, with `always`."""
        if life == self.life and self.mode == "always":
            self.durable = max(self.durable, effects)

    def crash(self) -> int:
        """Fall back to a state that the disk may hold, and stay down. Returns how many scripts were lost."""
        keep = self.world.rng.randint(max(self.floor, self.durable), len(self.file))
        return self._fall_back(keep)

    def restart(self) -> None:
        """Answer again."""
        self.up = True

    def fail_over(self) -> int:
        """Promote a replica that lags. Returns how many scripts were lost."""
        rng = self.world.rng
        keep = max(self.floor, len(self.file) - rng.randint(0, 12))
        lost = self._fall_back(keep)
        self.up = True
        return lost

    def empty(self) -> None:
        """FLUSHALL, while nobody is connected."""
        self.life += 1
        self.watchers.clear()
        self.file, self.durable, self.floor = [], 0, 0
        self.redis = MiniRedis(self.now_ms)
        self.up = True

    def _keep(self, name: str, keys: list[bytes]) -> None:
        effects = self.redis.effects
        if effects:
            self.redis.effects = []
            self.file.append(effects)
            if self.mode == "failover":
                self.durable = len(self.file)
            self.received(len(self.file) - 1, name, keys, effects)
            if self.watchers and any(effect[0] == "XADD" for effect in effects):
                watchers, self.watchers = self.watchers, []
                for watcher in watchers:
                    watcher()

    def _fall_back(self, keep: int) -> int:
        lost = len(self.file) - keep
        self.life += 1
        self.up = False
        self.watchers.clear()
        if lost:
            del self.file[keep:]
            self.redis = MiniRedis(self.now_ms)
            for effects in self.file:
                self.redis.play(effects)
        self.durable = keep
        self.fell_back(keep)
        return lost

    def _flush(self) -> None:
        """The disk catches up at intervals."""
        self.durable = len(self.file)
        self.world.after(self.world.rng.uniform(20, 400), self._flush)
