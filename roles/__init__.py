"""How a node is brought to its plan: one module per capability, each with ``apply(plan)``.

A role decides nothing: numbers come from the plan, file contents from ``lockstep.files``, and
what is there from facts. Roles never import each other; what they share has a leading underscore.
A role that ran before finds nothing to do and does nothing.
"""

if __name__ != "lockstep.roles":
    # One module under two names would be two modules: two operations, two registries.
    raise ImportError("import it as lockstep.roles: roles/ is that package")
