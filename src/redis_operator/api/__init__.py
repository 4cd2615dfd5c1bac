"""The custom resources as values: types, defaults, validation and the CRDs made from them."""
