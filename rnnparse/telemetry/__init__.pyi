from rnnparse.telemetry.keras_callback import TelemetryCallback as TelemetryCallback
from rnnparse.telemetry.recorder import RowGradient as RowGradient
from rnnparse.telemetry.recorder import Telemetry as Telemetry
from rnnparse.telemetry.tensorboard import TensorBoardLog as TensorBoardLog
