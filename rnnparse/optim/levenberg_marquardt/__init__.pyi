from rnnparse.optim.levenberg_marquardt.fit import fit_least_squares as fit_least_squares
from rnnparse.optim.levenberg_marquardt.minimizer import LevenbergMarquardt as LevenbergMarquardt
from rnnparse.optim.levenberg_marquardt.results import MinimizeResult as MinimizeResult
from rnnparse.optim.levenberg_marquardt.results import StepResult as StepResult
from rnnparse.optim.levenberg_marquardt.results import Tolerances as Tolerances
from rnnparse.optim.levenberg_marquardt.robust_loss import robust as robust
