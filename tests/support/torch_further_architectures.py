"""Still further architectures of transformers with small configurations: sparse attention, tables of pixels, codecs, video."""

from __future__ import annotations

from .torch_architectures import DECODER, IMAGE, PAIR, SIZES, Architecture, Config

_PAIR = {**PAIR, "encoder_layers": 1, "decoder_layers": 1, "max_position_embeddings": 40}
_VISION = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 48, "image_size": 32,
           "patch_size": 8}  # fmt: skip
_SPEECH = {"vocab_size": 50, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48,
           "conv_dim": (16, 16), "conv_stride": (5, 2), "conv_kernel": (10, 3), "num_feat_extract_layers": 2,
           "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4, "mask_time_prob": 0.0}  # fmt: skip
_GEMMA = {**DECODER, "head_dim": 8, "query_pre_attn_scalar": 8, "sliding_window": 4}

FURTHER_ARCHITECTURES: dict[str, Architecture] = {
    "big_bird": Architecture("BigBirdModel", "BigBirdConfig", {**SIZES, "max_position_embeddings": 64, "attention_type":
        "block_sparse", "block_size": 4, "num_random_blocks": 1}, ("2x48",)),
    "luke": Architecture("LukeModel", "LukeConfig", {**SIZES, "entity_vocab_size": 20, "entity_emb_size": 8}),
    "lxmert": Architecture("LxmertModel", "LxmertConfig", {"vocab_size": 50, "hidden_size": 32, "num_attention_heads": 4,
        "intermediate_size": 48, "l_layers": 1, "x_layers": 1, "r_layers": 1, "visual_feat_dim": 8, "max_position_embeddings":
        40}, ("2x9", "f2x4x8", "f2x4x4"), names=("input_ids", "visual_feats", "visual_pos"), results=("language_output",
        "vision_output")),
    "mra": Architecture("MraModel", "MraConfig", {**SIZES, "max_position_embeddings": 64, "block_per_row": 2}, ("2x32",)),
    "yoso": Architecture("YosoModel", "YosoConfig", {**SIZES, "use_expectation": True}),
    "sam": Architecture("SamModel", "SamConfig", {"vision_config": {**_VISION, "mlp_dim": 48, "output_channels": 32,
        "window_size": 2, "global_attn_indexes": [0], "num_pos_feats": 16}, "prompt_encoder_config": {"hidden_size": 32,
        "image_size": 32, "patch_size": 8, "mask_input_channels": 8}, "mask_decoder_config": {"hidden_size": 32, "mlp_dim":
        48, "num_hidden_layers": 1, "num_attention_heads": 4, "iou_head_hidden_dim": 16}}, ("f2x3x32x32", "f2x1x2x2"),
        names=("pixel_values", "input_points"), results=("pred_masks", "iou_scores")),
    "granitemoe": Architecture("GraniteMoeModel", "GraniteMoeConfig", {**DECODER, "num_local_experts": 4,
        "num_experts_per_tok": 2}),
    "autoformer": Architecture("AutoformerModel", "AutoformerConfig", {"encoder_layers": 1, "decoder_layers": 1,
        "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32,
        "prediction_length": 4, "context_length": 8, "lags_sequence": [1, 2], "num_time_features": 1, "d_model": 16,
        "use_cache": False, "label_length": 4, "moving_average": 3}, ("f2x10", "f2x10x1", "f2x10", "f2x4", "f2x4x1"),
        names=("past_values", "past_time_features", "past_observed_mask", "future_values", "future_time_features"),
        results=("last_hidden_state",)),
    "mobilevit": Architecture("MobileViTModel", "MobileViTConfig", {"image_size": 32, "patch_size": 2, "hidden_sizes": [16,
        16, 16], "neck_hidden_sizes": [4, 8, 8, 16, 16, 16, 32], "num_attention_heads": 4, "mlp_ratio": 2.0},
        ("f2x3x64x64",)),
    "mobilevitv2": Architecture("MobileViTV2Model", "MobileViTV2Config", {"image_size": 32, "patch_size": 2,
        "width_multiplier": 0.25, "base_attn_unit_dims": [32, 32, 32], "n_attn_blocks": [1, 1, 1]}, ("f2x3x64x64",)),
    "moonshine": Architecture("MoonshineModel", "MoonshineConfig", {"vocab_size": 50, "hidden_size": 32, "intermediate_size":
        48, "encoder_num_hidden_layers": 1, "decoder_num_hidden_layers": 1, "encoder_num_attention_heads": 4,
        "decoder_num_attention_heads": 4, "max_position_embeddings": 64, "pad_token_id": 0, "decoder_start_token_id": 1},
        ("f2x3200", "2x7"), True),
    "deberta": Architecture("DebertaModel", "DebertaConfig", {**SIZES, "relative_attention": True, "pos_att_type": ["p2c",
        "c2p"]}),
    "dpt": Architecture("DPTForDepthEstimation", "DPTConfig", {**_VISION, "num_hidden_layers": 4, "backbone_out_indices": [0,
        1, 2, 3], "neck_hidden_sizes": [8, 8, 16, 16], "fusion_hidden_size": 8}, IMAGE),
    "mgp_str": Architecture("MgpstrForSceneTextRecognition", "MgpstrConfig", {"image_size": [16, 32], "patch_size": 4,
        "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "max_token_length": 5, "num_character_labels": 8,
        "num_bpe_labels": 10, "num_wordpiece_labels": 9}, ("f2x3x16x32",)),
    "patchtsmixer": Architecture("PatchTSMixerForPrediction", "PatchTSMixerConfig", {"context_length": 16, "patch_length": 4,
        "patch_stride": 4, "num_input_channels": 3, "d_model": 8, "num_layers": 1, "prediction_length": 4, "mode":
        "mix_channel", "gated_attn": True}, ("f2x16x3",), names=("past_values",), results=("prediction_outputs",)),
    "perceiver_latents": Architecture("PerceiverModel", "PerceiverConfig", {"num_latents": 6, "d_latents": 16, "d_model": 32,
        "num_blocks": 1, "num_self_attends_per_block": 2, "num_self_attention_heads": 4, "num_cross_attention_heads": 2},
        ("f2x9x32",)),
    "poolformer": Architecture("PoolFormerModel", "PoolFormerConfig", {"hidden_sizes": [8, 16], "depths": [1, 1],
        "num_encoder_blocks": 2, "patch_sizes": [7, 3], "strides": [4, 2], "padding": [2, 1], "mlp_ratio": 2.0}, IMAGE),
    "pvt_v2": Architecture("PvtV2Model", "PvtV2Config", {"image_size": 32, "hidden_sizes": [8, 16], "depths": [1, 1],
        "num_encoder_blocks": 2, "sr_ratios": [2, 1], "num_attention_heads": [1, 2], "patch_sizes": [7, 3], "strides": [4, 2],
        "mlp_ratios": [2, 2]}, IMAGE),
    "roformer": Architecture("RoFormerModel", "RoFormerConfig", {**SIZES, "embedding_size": 32}),
    "sew_d": Architecture("SEWDModel", "SEWDConfig", {**_SPEECH, "squeeze_factor": 2, "position_buckets": 8,
        "max_position_embeddings": 64}, ("f2x400",)),
    "speech_to_text": Architecture("Speech2TextModel", "Speech2TextConfig", {**_PAIR, "input_feat_per_channel": 8,
        "conv_channels": 16, "max_source_positions": 40, "max_target_positions": 40, "num_conv_layers": 2}, ("f2x20x8",
        "2x7"), True),
    "speecht5": Architecture("SpeechT5ForSpeechToText", "SpeechT5Config", {"vocab_size": 50, "hidden_size": 32,
        "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
        "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "conv_dim": (16, 16), "conv_stride": (5, 2), "conv_kernel": (10, 3),
        "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4, "num_feat_extract_layers": 2, "mask_time_prob":
        0.0, "use_cache": False}, ("f2x400", "2x7"), names=("input_values", "decoder_input_ids"), results=("logits",)),
    "squeezebert": Architecture("SqueezeBertModel", "SqueezeBertConfig", {**SIZES, "embedding_size": 32}),
    "swiftformer": Architecture("SwiftFormerModel", "SwiftFormerConfig", {"image_size": 32, "depths": [1, 1], "embed_dims":
        [8, 16], "mlp_ratio": 2, "down_patch_size": 3, "down_stride": 2, "down_pad": 1, "drop_path_rate": 0.0}, IMAGE),
    "swin2sr": Architecture("Swin2SRForImageSuperResolution", "Swin2SRConfig", {"image_size": 16, "patch_size": 1, "embed_dim":
        12, "depths": [1, 1], "num_heads": [2, 2], "window_size": 4, "upscale": 2}, ("f1x3x16x16",),
        names=("pixel_values",), results=("reconstruction",)),
    "t5gemma": Architecture("T5GemmaModel", "T5GemmaConfig", {"encoder": _GEMMA, "decoder": {**_GEMMA, "is_decoder": True},
        "vocab_size": 50}, ("2x9", "2x7"), True),
    "textnet": Architecture("TextNetModel", "TextNetConfig", {"stem_num_channels": 3, "stem_out_channels": 8,
        "hidden_sizes": [8, 8, 16, 16, 16], "conv_layer_kernel_sizes": [[[3, 3]], [[3, 1]], [[1, 3]], [[3, 3]]],
        "conv_layer_strides": [[1], [2], [2], [2]]}, IMAGE),
    "timesformer": Architecture("TimesformerModel", "TimesformerConfig", {"image_size": 16, "patch_size": 8, "num_frames": 2,
        "hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 48}, ("f1x2x3x16x16",)),
    "univnet": Architecture("UnivNetModel", "UnivNetConfig", {"model_in_channels": 4, "model_hidden_channels": 8,
        "num_mel_bins": 8, "kernel_predictor_hidden_channels": 4, "kernel_predictor_num_blocks": 1, "resblock_kernel_sizes":
        [3], "resblock_stride_sizes": [4], "resblock_dilation_sizes": [[1, 3]]}, ("f1x12x8", "f1x12x4"),
        names=("input_features", "noise_sequence"), results=("waveforms",)),
    "upernet": Architecture("UperNetForSemanticSegmentation", "UperNetConfig", {"hidden_size": 8, "pool_scales": [1, 2],
        "num_labels": 4, "use_auxiliary_head": False, "backbone_config": Config("ResNetConfig", {"embedding_size": 8,
        "hidden_sizes": [8, 16, 16, 16], "depths": [1, 1, 1, 1], "layer_type": "basic", "out_features": ["stage1", "stage2",
        "stage3", "stage4"]})}, ("f1x3x64x64",), names=("pixel_values",), results=("logits",)),
}  # fmt: skip
