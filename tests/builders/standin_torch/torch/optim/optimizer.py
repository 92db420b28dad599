"""The base class: `step` of each subclass calls the hooks, as torch's does."""

import functools
from collections import OrderedDict

_global_optimizer_post_hooks = OrderedDict()


class _Handle:
    def __init__(self, hooks, key):
        self._hooks = hooks
        self._key = key

    def remove(self):
        self._hooks.pop(self._key, None)


def register_optimizer_step_post_hook(hook):
    key = len(_global_optimizer_post_hooks)
    _global_optimizer_post_hooks[key] = hook
    return _Handle(_global_optimizer_post_hooks, key)


class Optimizer:
    """Holds groups of parameters."""

    def __init__(self, params, defaults=None):
        groups = list(params)
        if not (groups and isinstance(groups[0], dict)):
            groups = [{"params": groups}]
        self.param_groups = groups
        self.defaults = defaults or {}
        self.state = {}
        cls = type(self)
        if not getattr(cls.step, "hooked", None):
            cls.step = self._hooked(cls.step)

    @staticmethod
    def _hooked(step):
        @functools.wraps(step)
        def wrapper(*args, **kwargs):
            out = step(*args, **kwargs)
            for hook in list(_global_optimizer_post_hooks.values()):
                hook(args[0], args[1:], kwargs)
            return out

        wrapper.hooked = True
        return wrapper

    def zero_grad(self, set_to_none=True):
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad = None

    def step(self, closure=None):
        raise NotImplementedError
