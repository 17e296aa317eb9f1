"""Method calls on a chain of constraints between variables, planned and carried out again and again."""


class Variable:
    def __init__(self, value):
        self.value, self.constraints, self.mark = value, [], 0


class Constraint:
    strength = 1

    def __init__(self, *variables):
        self.variables = variables
        for variable in variables:
            variable.constraints.append(self)

    def output(self):
        return self.variables[-1]

    def execute(self):
        raise NotImplementedError


class Equal(Constraint):
    def execute(self):
        self.variables[1].value = self.variables[0].value


class Scaled(Constraint):
    strength = 2

    def __init__(self, source, scale, offset, target):
        super().__init__(source, target)
        self.scale, self.offset = scale, offset

    def execute(self):
        source, target = self.variables
        target.value = source.value * self.scale.value % 1009 + self.offset.value


def plan(begin, mark):
    """The constraints in the order in which a change of the first variable goes through them."""
    steps, reached = [], [begin]
    while reached:
        variable = reached.pop()
        variable.mark = mark
        for constraint in sorted(variable.constraints, key=lambda constraint: -constraint.strength):
            if constraint.variables[0] is variable and constraint.output().mark != mark:
                steps.append(constraint)
                reached.append(constraint.output())
    return steps


def work():
    scale, offset = Variable(7), Variable(3)
    chain = [Variable(i) for i in range(300)]
    for i, (source, target) in enumerate(zip(chain, chain[1:])):
        if i % 3:
            Equal(source, target)
        else:
            Scaled(source, scale, offset, target)
    total = 0
    for turn in range(1, 31):
        steps = plan(chain[0], turn)
        for value in range(5):
            chain[0].value = value
            for step in steps:
                step.execute()
            total += chain[-1].value
    return total
