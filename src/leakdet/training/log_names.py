"""The names of logged and monitored values, and of the files of a run."""

TRAIN_LOSS = "train/loss"
TRAIN_CLASS_LOSS = "train/class_loss"
TRAIN_LEAK_LOSS = "train/leak_loss"
TRAIN_LOSSES = (TRAIN_LOSS, TRAIN_CLASS_LOSS, TRAIN_LEAK_LOSS)
# share of leaks among the samples that the epoch draws; it changes under a curriculum
TRAIN_DRAWN = "train/leaks_drawn"
TRAIN_ACCURACY = "train/accuracy"  # share of augmented samples that the class head gets right
VAL_LOSS = "val/loss"
VAL_CLASS_LOSS = "val/class_loss"
VAL_LEAK_LOSS = "val/leak_loss"
VAL_LOSSES = (VAL_LOSS, VAL_CLASS_LOSS, VAL_LEAK_LOSS)
VAL_F1 = "val/recording_f1"
VAL_AUROC = "val/recording_auroc"
VAL_RANK = "val/rank"  # by which the best check is chosen: recording F1, ties broken by the loss
# by `select`, where that is not F1: the higher, the better
VAL_SELECTION = "val/selection"
VAL_TPR_AT_FPR = tuple(f"val/tpr_at_fpr_{fpr}" for fpr in ("0.1", "0.01", "0.001", "0.0001"))
# of all windows, where recordings are too few to resolve the rate
VAL_WINDOW_TPR_AT_FPR = tuple(name.replace("/", "/window_") for name in VAL_TPR_AT_FPR)
VAL_FPR_AT_TPR = tuple(f"val/fpr_at_tpr_{tpr}" for tpr in ("0.5", "0.85", "0.95"))
VAL_TPR_LEAST_FPR = "val/tpr_at_least_fpr"  # the smallest FPR that so many negatives can resolve
VAL_THRESHOLD = "val/threshold"
VAL_CONFUSION = ("val/tn", "val/fp", "val/fn", "val/tp")
TEST_LOSS = "test/loss"  # by Trainer.test
TEST_F1 = "test/recording_f1"
TEST_AUROC = "test/recording_auroc"
TEST_CONFUSION = ("test/tn", "test/fp", "test/fn", "test/tp")
VAL_CLASS_F1 = "val/class_f1"  # macro F1 of the classes of recordings, where they are told
VAL_CLASS_CONFUSION = "val/class_confusion/"  # + TRUE/PREDICTED: recordings, in the history only

# Diagnostics. Probabilities are those of samples, before they are pooled into recordings.
VAL_PROB_MEAN = "val/leak_prob_mean"
VAL_PROB_STD = "val/leak_prob_std"
# of windows, which are the samples unless data.unit=segment
VAL_PROB_MEDIAN = "val/leak_prob_median"
VAL_PROB_RANGE = ("val/leak_prob_min", "val/leak_prob_max")
VAL_LEAK_SHARE = "val/predicted_leak_share"
VAL_HEADS = "val/head_correlation"
VAL_PROB_HISTOGRAM = "val/leak_prob"
VAL_PROB_BINS = tuple(f"val/leak_prob_bin{number}" for number in range(10))  # shares of samples
VAL_SCORE_HISTOGRAM = "val/recording_score"
FIRST_CLASS_LOSS = "first_batch/class_loss"  # of untrained weights
FIRST_LEAK_LOSS = "first_batch/leak_loss"
FIRST_CHANCE_LOSS = "first_batch/chance_loss"  # class loss at equal logits
FIRST_LOGITS = ("first_batch/lowest_logit", "first_batch/highest_logit")  # of the class head
FIRST_LEAK_LOGITS = ("first_batch/lowest_leak_logit", "first_batch/highest_leak_logit")
FIRST_INPUT_STD = "first_batch/input_std"  # of what the network's body gets
FIRST_LEAK_SHARE = "first_batch/leak_share"  # true leaks
FIRST_PREDICTED = "first_batch/predicted_leak_share"  # by the class head
FIRST_PREDICTED_LEAKS = "first_batch/predicted_leak_share_of_leak_head"
GRADIENT_NORM = "gradient/norm"
GRADIENT_MEAN = "gradient/norm_mean"
GRADIENT_MIN = "gradient/norm_min"
GRADIENT_MAX = "gradient/norm_max"
GRADIENT_LAYER = "gradient_layer/"  # + the parameter's name
WAIT_COUNT = "loader/waits"
WAIT_SPIKES = "loader/wait_spikes"
WAIT_SPACING = "loader/wait_spacing_batches"  # median distance of the spikes
WAIT_MEAN = "loader/wait_mean_s"
WAIT_MEDIAN = "loader/wait_median_s"
WAIT_P95 = "loader/wait_p95_s"
WAIT_MAX = "loader/wait_max_s"
WAIT_WORST = (
    "loader/wait_worst2_s",
    "loader/wait_worst3_s",
    "loader/wait_worst4_s",
    "loader/wait_worst5_s",
)
WAIT_SHARE = "loader/wait_share"
WORKER_START = "loader/worker_start_s"  # longest wait for a reading process to start
SPIKE = "loader/spike_s"  # a single long wait, at its step, with the state of the machine
SPIKE_BATCH = "loader/spike_batch"  # from 1, in its epoch
SPIKE_STATE = (
    "loader/spike_load",
    "loader/spike_ram_share",
    "loader/spike_cpu_share",
    "loader/spike_page_faults",
    "loader/spike_read_mb",
    "loader/spike_disk_stall",
)
SAMPLES_PER_S = "speed/samples_per_s"  # of all processes, without the checks
BATCHES_PER_S = "speed/batches_per_s"
BATCH_MEAN = "speed/batch_mean_s"  # from one batch's end to the next one's
BATCH_STD = "speed/batch_std_s"
BATCH_P95 = "speed/batch_p95_s"
BATCH_MAX = "speed/batch_max_s"
CALLBACKS_SHARE = "speed/callbacks_share"  # callbacks and loggers between the batches
CHECK_TIME = "speed/check_s"
CHECK_SHARE = "speed/check_share"  # of the time since the check before
CHECK_RECORDINGS_PER_S = "speed/check_recordings_per_s"
CPU_USE = "system/cpu_share"
RAM_USE = "system/ram_share"
GPU_USE = "system/gpu_share"  # of the time, not of its units
GPU_ALLOCATED = "system/gpu_allocated_gb"  # in tensors
GPU_RESERVED = "system/gpu_reserved_gb"  # from the driver, for tensors to come
GPU_PEAK = "system/gpu_peak_gb"  # most in tensors at once since the training began
GPU_MEMORY = "system/gpu_memory_share"  # of the card at its fullest, with other programs
FIGURES = "figures/"  # + the figure's name
RESULTS = "results/"  # + the split and the score

BEST_F1 = "best_f1"
BEST_SELECTED = "best_selected"  # by `select`, where that is not F1
BEST_LOSS = "best_loss"
LAST = "last"
CHECKPOINTS = "checkpoints"
ENDING = ".ckpt"  # of a checkpoint's name
HISTORY = "history.csv"
WARNINGS = "warnings.txt"
LOGS = "logs"
STEPS = f"{LOGS}/metrics.csv"  # of Lightning's CSVLogger
