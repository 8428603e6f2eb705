from rnnparse.parser_study.convex import descent_bound as descent_bound
from rnnparse.parser_study.convex import minimize_convex as minimize_convex
from rnnparse.parser_study.grid import Grid as Grid
from rnnparse.parser_study.study import ParserStudy as ParserStudy
