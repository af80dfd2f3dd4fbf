"""The least seconds of a step below a cap of the device's memory, as a mixed integer program for HiGHS.

All of what passes/Tiers/Tiers.h says of moves is in it, but for a limit of the host: which gaps are moved and with which copies, at which positions values are gone and back, when
each transfer begins, and that a link does one after the other. It leaves out that transfers which start at one position do so in one order for both links, so what it finds
is never above the optimum."""
import highspy
import numpy as np


class Program:
    """Variables, rows `sum of (factor, variable) >= low`, and a cost that is to be least."""

    def __init__(self):
        self.columns, self.rows = [], []

    def variable(self, low, high, cost=0.0, whole=False):
        self.columns.append((low, high, cost, whole))
        return len(self.columns) - 1

    def choice(self):
        return self.variable(0, 1, whole=True)

    def at_least(self, low, *terms):
        row = {}
        for factor, variable in terms:
            row[variable] = row.get(variable, 0) + factor
        self.rows.append((low, row))

    def solve(self, seconds):
        """The status, the cost of the best solution and what none is below. Stops after so many seconds."""
        solver, lp = highspy.Highs(), highspy.HighsLp()
        for option, value in (("output_flag", False), ("threads", 1), ("time_limit", float(seconds)), ("mip_rel_gap", 1e-5)):
            solver.setOptionValue(option, value)
        low, high, cost, whole = zip(*self.columns, strict=True)
        lp.num_col_, lp.num_row_ = len(self.columns), len(self.rows)
        lp.col_lower_, lp.col_upper_, lp.col_cost_ = (np.array(part, float) for part in (low, high, cost))
        lp.integrality_ = [highspy.HighsVarType.kInteger if w else highspy.HighsVarType.kContinuous for w in whole]
        lp.row_lower_ = np.array([row[0] for row in self.rows], float)
        lp.row_upper_ = np.full(len(self.rows), highspy.kHighsInf)
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lp.a_matrix_.start_ = np.cumsum([0] + [len(row[1]) for row in self.rows])
        lp.a_matrix_.index_ = np.array([variable for row in self.rows for variable in row[1]], int)
        lp.a_matrix_.value_ = np.array([factor for row in self.rows for factor in row[1].values()], float)
        solver.passModel(lp)
        solver.run()
        info = solver.getInfo()
        return solver.modelStatusToString(solver.getModelStatus()), info.objective_function_value, info.mip_dual_bound


class StepModel:
    """A step as `tier-steps` prints it. `bound` is what a plan takes that is known: nothing slower is looked at."""

    def __init__(self, step, bound):
        self.step, self.bound, self.p = step, bound, Program()
        self.n = len(step["seconds"])
        self.down, self.up, self.latency = step["rates"]
        # At each position computing arrives, then offloads are waited for (`waited`), then prefetches: the operator begins (`begins`).
        self.waited = [self.p.variable(0, bound) for _ in range(self.n + 1)]
        self.begins = [self.p.variable(0, bound) for _ in range(self.n)] + [self.p.variable(sum(step["seconds"]), bound, cost=1.0)]
        for q in range(self.n + 1):
            self.p.at_least(0, (1, self.begins[q]), (-1, self.waited[q]))
            if q:
                self.p.at_least(step["seconds"][q - 1], (1, self.waited[q]), (-1, self.begins[q - 1]))
        self.freed = [[] for _ in range(self.n)]  # bytes by position: (bytes, variable)
        self.offloads, self.prefetches = [], []
        for value in step["values"]:
            self.add_value(value)
        for q in range(self.n):
            if step["bytes"][q] > step["device"]:
                self.p.at_least(step["bytes"][q] - step["device"], *self.freed[q])
        self.add_queues()
        self.add_loads()

    def add_value(self, value):
        uses, rests = value["uses"], value["rests"]
        moved = [self.p.choice() for _ in range(len(uses) if rests else len(uses) - 1)]
        for gap, moves in enumerate(moved):
            if rests and gap + 1 < len(uses):
                self.p.at_least(0, (1, moved[-1]), (-1, moves))
            # Moves that leave a copy which is valid when this gap begins.
            copies, at = [], gap
            while not uses[at][1]:
                if at == 0:
                    copies += [moved[-1]] if rests else []
                    break
                at -= 1
                copies.append(moved[at])
            if moves in copies:
                dirty = None
            elif copies:
                dirty = self.p.choice()
                self.p.at_least(0, (1, dirty), (-1, moves), *[(1, copy) for copy in copies])
            else:
                dirty = moves
            self.add_gap(value, gap, moves, dirty)

    def add_gap(self, value, gap, moves, dirty):
        p, uses, most = self.p, value["uses"], self.bound
        is_round = gap + 1 == len(uses)
        use, after = uses[gap][0], uses[(gap + 1) % len(uses)][0]
        end, first = (self.n, 0) if is_round else (after, use + 1)
        gone = {q: p.choice() for q in range(use + 1, end)}  # at q or before
        back = {q: p.choice() for q in range(first, after)}
        for steps in (gone, back):
            for q in steps:
                p.at_least(0, (1, moves), (-1, steps[q]))
                if q - 1 in steps:
                    p.at_least(0, (1, steps[q]), (-1, steps[q - 1]))
        if is_round:
            away = {q: [(1, gone[q])] for q in gone} | {q: [(1, moves), (-1, back[q])] for q in back}
        else:
            away = {q: [(1, gone[q]), (-1, back[q])] for q in gone}
            for q in gone:
                p.at_least(0, (1, gone[q]), (-1, back[q]))
        for q, terms in away.items():
            self.freed[q] += [(value["bytes"] * factor, variable) for factor, variable in terms]
        seconds = self.latency + value["bytes"] / self.up
        start = p.variable(0, most)
        for q in range(first, after + 1):
            p.at_least(-most, (1, start), (-1, self.waited[q]), (-most, moves), *([(most, back[q - 1])] if q > first else []))
        p.at_least(seconds - most, (1, self.begins[after]), (-1, start), (-most, moves))
        self.prefetches.append((start, seconds, moves, first, after, away))
        if dirty is not None:
            self.add_offload(value, (use, end), gone, moves, dirty, None if is_round else start)

    def add_offload(self, value, window, gone, moves, dirty, prefetch):
        p, most, (use, end) = self.p, self.bound, window
        seconds = self.latency + value["bytes"] / self.down
        done = p.variable(0, most)
        p.at_least(seconds + self.step["seconds"][use] - 2 * most, (1, done), (-2 * most, dirty), (-1, self.begins[use]))
        for q in gone:
            p.at_least(-2 * most, (1, self.waited[q]), (-1, done), (-most, gone[q]), (-most, dirty))
        p.at_least(-most, (1, self.waited[end]), (-1, done), (-most, dirty))
        if prefetch is not None:
            p.at_least(-most, (1, prefetch), (-1, done), (-most, dirty))
        parts = dict(gone)  # gone and gone down
        if dirty != moves:
            for q in gone:
                parts[q] = p.variable(0, 1)
                p.at_least(-1, (1, parts[q]), (-1, gone[q]), (-1, dirty))
        self.offloads.append((done, seconds, dirty, use, end, parts))

    def add_queues(self):
        """One after the other. The time of a prefetch is its beginning, that of an offload its end."""
        p, most = self.p, self.bound
        for i, (b, b_seconds, b_moves, b_first, b_after, _) in enumerate(self.prefetches):
            for a, a_seconds, a_moves, a_first, a_after, _ in self.prefetches[:i]:
                if b_after >= a_first and a_after >= b_first:
                    order = p.choice()
                    p.at_least(b_seconds - 3 * most, (1, a), (-1, b), (-most, order), (-most, a_moves), (-most, b_moves))
                    p.at_least(a_seconds - 2 * most, (1, b), (-1, a), (most, order), (-most, a_moves), (-most, b_moves))
        for i, (b, b_seconds, b_moves, b_use, b_end, _) in enumerate(self.offloads):
            for a, a_seconds, a_moves, a_use, a_end, _ in self.offloads[:i]:
                if b_end > a_use and a_end > b_use:
                    order = p.choice()
                    p.at_least(a_seconds - 3 * most, (1, a), (-1, b), (-most, order), (-most, a_moves), (-most, b_moves))
                    p.at_least(b_seconds - 2 * most, (1, b), (-1, a), (most, order), (-most, a_moves), (-most, b_moves))

    def add_loads(self):
        """What follows of all that, and makes it easy: what a link has to do between two moments fits between them."""
        p, n, seconds = self.p, self.n, [*self.step["seconds"], 0]
        for q in range(n + 1):
            for r in range(q, n + 1):
                terms = [(-t, moves) for _, t, moves, first, after, _ in self.prefetches if q <= first and after <= r]
                if len(terms) > 1:
                    p.at_least(0, (1, self.begins[r]), (-1, self.waited[q]), *terms)
                terms = [(-t, moves) for _, t, moves, use, end, _ in self.offloads if q <= use and end <= r]
                if len(terms) > 1:
                    p.at_least(seconds[q], (1, self.waited[r]), (-1, self.begins[q]), *terms)
        for q in range(n):
            for r in range(q + 1, n + 1):  # what is away at q comes up behind it
                terms = [(-t * factor, variable) for _, t, _, _, after, away in self.prefetches if q < after <= r and q in away for factor, variable in away[q]]
                if terms:
                    p.at_least(0, (1, self.begins[r]), (-1, self.waited[q + 1]), *terms)
            for r in range(q):  # and has gone down before
                terms = [(-t, parts[q]) for _, t, _, use, _, parts in self.offloads if use >= r and q in parts]
                if terms:
                    p.at_least(seconds[r], (1, self.waited[q]), (-1, self.begins[r]), *terms)


def least_seconds(step, limit):
    """The seconds of the best plan that is found, no more than `step["plan"]`, and what no plan is below. The solver stops after `limit` seconds."""
    status, best, bound = StepModel(step, step["plan"] * (1 + 1e-7)).p.solve(limit)
    if status == "Infeasible":  # rounding: nothing is below what is known
        return step["plan"], step["plan"]
    return min(best, step["plan"]), min(bound, step["plan"])
