"""Rules of custom resources (`x-kubernetes-validations`): compiled, costed, evaluated.

Called by `objects.questions` and the validation of definitions; begin with `rules`.
"""
