"""Rules of custom resources (`x-kubernetes-validations`): compiled, costed, evaluated.

`syntax` parses an expression, `compile` checks it, `cost` estimates it as Kubernetes does, and
`library` has the functions that Kubernetes adds to CEL.

May import: `custom`, `kinds`.
Called by: `objects.questions` and `objects.validation`.
Begin with: `rules`.
"""
